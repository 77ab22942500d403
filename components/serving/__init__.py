"""Model servers, and what stands in front of and beside them."""
