"""The cases of ``scripts/same_bits.py``; it sets the threads of NumPy and bmrm before these are imported."""
