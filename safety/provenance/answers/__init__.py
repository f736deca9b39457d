"""What tools answer: records, people and entries of lists, by which the user chose a target without spelling it."""
