"""The cutting planes, and the inner problems that minimise over them."""
