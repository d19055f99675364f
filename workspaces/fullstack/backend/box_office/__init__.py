"""A box office: shows, seats and who has booked them."""
