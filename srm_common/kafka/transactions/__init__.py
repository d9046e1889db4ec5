"""Transactional producers of one transactional id each, markers, hanging transactions."""
