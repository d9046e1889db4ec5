"""Transactional producers, markers, hanging transactions."""
