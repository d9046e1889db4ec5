"""Certificates and key stores: X.509, PEM, JKS, PKCS12."""
