"""What is found out about a row function before code is printed."""
