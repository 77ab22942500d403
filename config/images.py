"""Container images, for mirrors and newer versions; served models may name their own."""

from catalog.images import METRICS_ADAPTER, MODEL_SERVER, STAGING
from config.fields import Section


class Images(Section):
    """What runs where nothing else is said."""

    model_server: str = MODEL_SERVER
    """vLLM for TPU; flags and environment names are checked against the release in the tag."""
    staging: str = STAGING
    """Python, for the staging Jobs and the containers that move compiled programs."""
    metrics_adapter: str = METRICS_ADAPTER
    """Used only where GKE does not hand metrics to autoscalers itself."""
