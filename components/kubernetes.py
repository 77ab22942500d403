"""The Kubernetes provider that speaks to a stack's own cluster."""

import pulumi
import pulumi_kubernetes as k8s

from components.cluster import Cluster

PLUGIN = "gke-gcloud-auth-plugin"


def cluster_provider(
    name: str, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
) -> k8s.Provider:
    """A provider that holds no credential: the caller's own, fetched by Google's plugin."""
    return k8s.Provider(
        name,
        kubeconfig=pulumi.Output.json_dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "gke",
                "clusters": [
                    {
                        "name": "gke",
                        "cluster": {"server": pulumi.Output.concat("https://", cluster.endpoint)},
                    }
                ],
                "contexts": [{"name": "gke", "context": {"cluster": "gke", "user": "caller"}}],
                "users": [
                    {
                        "name": "caller",
                        "user": {
                            "exec": {
                                "apiVersion": "client.authentication.k8s.io/v1beta1",
                                "command": PLUGIN,
                                "installHint": f"gcloud components install {PLUGIN}",
                                "provideClusterInfo": True,
                                "interactiveMode": "IfAvailable",
                            }
                        },
                    }
                ],
            }
        ),
        # Only another cluster makes this another provider; a new address or flag does not.
        cluster_identifier=cluster.cluster_id,
        opts=opts,
    )
