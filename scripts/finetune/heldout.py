"""The loss of a model on held-out bodies."""

from collections.abc import Sequence

import functions
import torch
from decoder import Decoder
from team import Team

N_ROWS_AT_ONCE = 2


@torch.no_grad()
def loss_of(
    decoder: Decoder,
    encoded: Sequence[functions.Encoded],
    row_tokens: int,
    team: Team | None = None,
) -> dict:
    """Nats for each token of the bodies, end of text included; and at triggers and elsewhere apart."""
    team = team or Team()
    rows = functions.pack(encoded, row_tokens, seed=0)
    trigger_id = -1 if decoder.trigger_id is None else decoder.trigger_id
    sums = torch.zeros(4, dtype=torch.float64)
    decoder.settle()
    for group in functions.in_groups(team.share(rows), N_ROWS_AT_ONCE):
        batch = functions.batch_of(group, row_tokens, loss_on_all=False)
        _, losses, targets = decoder.losses(batch)
        losses, at_trigger = losses.double(), targets == trigger_id
        values = losses.sum(), len(losses), losses[at_trigger].sum(), at_trigger.sum()
        sums += torch.tensor([float(value) for value in values], dtype=torch.float64)
    nats, n_tokens, trigger_nats, n_triggers = team.sum(sums).tolist()
    result = {
        "nats_per_token": round(nats / n_tokens, 5),
        "nats": round(nats, 2),
        "tokens": int(n_tokens),
    }
    if n_triggers:
        result |= {
            "triggers": int(n_triggers),
            "nats_per_trigger": round(trigger_nats / n_triggers, 5),
            "nats_per_other_token": round((nats - trigger_nats) / (n_tokens - n_triggers), 5),
        }
    return result
