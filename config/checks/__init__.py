"""Rules across the fields of a stack file.

A check is a function of the sections it names as parameters; it runs once all of them could be
read, and yields what it finds.
"""

from config.checks import cluster, location, network, tpu_pools

CHECKS = (*location.CHECKS, *network.CHECKS, *cluster.CHECKS, *tpu_pools.CHECKS)
