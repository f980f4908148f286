"""What stock kubectl of several versions does on the embedded cluster: one function for each check of the table."""
