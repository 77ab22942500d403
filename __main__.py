"""The stack, in the order it is built: foundation, slices, weights, servers, outputs."""

import pulumi

from assembly import outputs
from assembly.foundation import foundation
from assembly.serving import single_hosts, split_over_slices, watch
from assembly.slicing import dynamic_slicing, jobs, smoke_test
from assembly.weights import model_weights
from config.load import hugging_face_token, load
from config.servers import servers
from config.sliced import sliced_servers

stack, called = load(), pulumi.get_stack()
base = foundation(stack)
exported = outputs.of_foundation(stack, base)

slicing = None
if stack.queueing is not None:
    slicing = dynamic_slicing(stack, stack.queueing, base)
    jobs(stack.queueing, base, slicing)
    exported |= outputs.of_slicing(stack, stack.queueing)
    if stack.queueing.smoke is not None:
        smoke = smoke_test(stack.queueing, stack.queueing.smoke, base, slicing)
        exported |= {"smoke": smoke.expected}

served, sliced = servers(stack), sliced_servers(stack)
if served or sliced:
    weights = model_weights(stack, {**served, **sliced}, base, hugging_face_token())
    models = single_hosts(stack, served, base, weights)
    if slicing is not None:
        models |= split_over_slices(stack, sliced, base, slicing, weights, stack_name=called)
    watching = watch(stack, models, base)
    exported |= outputs.of_serving(served, sliced, models, weights, watching, stack_name=called)

for name, value in exported.items():
    pulumi.export(name, value)
