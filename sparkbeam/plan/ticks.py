"""Need for the tick of a micro-batch in the first layer."""

from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.parsed_stage import parsed


def start_steps(topology: Topology) -> bool:
    """Return whether steps of layer 0 run when Spark's sources have no rows.

    They do if elements come with the tick, those of an Impulse or a TestStream, and if a bundle
    finalizer may wait for it.
    """
    return any(source.read is None for source in topology.plan.sources) or any(
        stage.exchange is Exchange.IMPULSE or _finalizes(stage) for stage in topology.layers[0]
    )


def _finalizes(stage: Stage) -> bool:
    return any(
        transform.spec.urn in translations.PAR_DO_URNS
        and par_do_payload(transform.spec.payload).requests_finalization
        for transform in parsed(stage).transforms.values()
    )
