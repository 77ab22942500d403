"""What the world offers: pure data with source and date, and the arithmetic on it."""
