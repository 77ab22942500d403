"""Container images, for mirrors and newer versions; served models may name their own."""

from catalog.images import METRICS_ADAPTER, MODEL_SERVER, STAGING
from config.fields import Section


class Images(Section):
    """What runs where nothing else is said."""

    model_server: str = MODEL_SERVER
    staging: str = STAGING
    metrics_adapter: str = METRICS_ADAPTER
