"""Rules across the fields of a stack file.

A check is a function of the sections it names as parameters; it runs once all of them could be
read, and yields what it finds.
"""

from config.checks import (
    autopilot,
    cluster,
    disaggregated,
    engine,
    location,
    network,
    queueing,
    serving,
    tpu_pools,
    weights,
)

CHECKS = (
    *location.CHECKS,
    *network.CHECKS,
    *cluster.CHECKS,
    *tpu_pools.CHECKS,
    *autopilot.CHECKS,
    *serving.CHECKS,
    *weights.CHECKS,
    *engine.CHECKS,
    *queueing.CHECKS,
    *disaggregated.CHECKS,
)
