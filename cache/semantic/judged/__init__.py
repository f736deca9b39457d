"""What a judge of sameness is asked: which entries are near, what no judge may waive, and how its verdict is read."""
