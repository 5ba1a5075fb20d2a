"""Graphs over several MPI ranks: who owns which nodes, edges sent to their owners, sums and exchanges.

The walks themselves are those of `bmrm.graph.backends.host`, on the rows of the rank's nodes. An iteration
exchanges the messages of all nodes once, and a few numbers.
"""
