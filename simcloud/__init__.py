"""Google Cloud and the cluster's API on this machine.

The real Pulumi engine runs; only its two resource providers are replaced, by processes of this
package that keep a pretended cloud in a file. From the outside in:

    __main__.py           the commands
    engine.py             Sim: one scratch project and its operations
    provider_process.py   starts server.py beside the engine
    server.py             one gRPC server a package
    provider.py           the engine's protocol; guard.py lets only the scratch backend in
    operations.py         create, update, read, delete: what every type goes through
    gcp/                  Google Cloud: check, diff, references, outputs, refusals
    kubernetes/           the cluster's API; behaviours.py is the place for what a kind does
    store.py              what exists, what was asked
    clock.py faults.py    how long things take, what goes wrong
    tables/               all facts, with source and date
"""
