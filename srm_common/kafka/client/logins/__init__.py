"""Logins: SASL by password, token, Kerberos and SCRAM, and what TLS needs."""
