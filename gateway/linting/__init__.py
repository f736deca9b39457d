"""What makes a model do better with a schema: rules, what each was measured to bring, and how it is printed."""
