"""What a run of `pulumi preview` says: events, the plan they tell, what it does to users."""
