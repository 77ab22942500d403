"""Rules across the fields of a stack file.

A check is a function of the sections it names as parameters; it runs once all of them could be
read, and yields what it finds.
"""

from config.checks import (
    autopilot,
    cluster,
    disaggregated,
    engine,
    jobs,
    location,
    network,
    operators,
    queueing,
    serving,
    sizes,
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
    *sizes.CHECKS,
    *weights.CHECKS,
    *engine.CHECKS,
    *operators.CHECKS,
    *queueing.CHECKS,
    *jobs.CHECKS,
    *disaggregated.CHECKS,
)
