"""What a set is worth: items, users, rewards, the objective and its constraints."""
