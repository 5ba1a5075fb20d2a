"""Graphs over several ranks of MPI: who owns which nodes, edges on their way to owners, sums and exchanges.

The walks themselves are those of `bmrm.graph.backends.host`, on the rows of the own nodes. An iteration
exchanges the messages of all nodes once, and a few numbers.
"""
