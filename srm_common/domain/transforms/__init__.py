"""What a flow does to records: Connect's transforms and predicates, as configured."""
