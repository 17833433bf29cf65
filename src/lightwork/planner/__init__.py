"""What to train with: proposals made from the data and the machine."""
