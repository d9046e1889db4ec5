"""What is known of topics and their copies, and what a flow decides about them."""
