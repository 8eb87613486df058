"""The forward pass of training: lower layers without gradients, LoRA in the model's own precision, the
head only where there is loss.

The modules are those of transformers and the parameters those of peft; only who calls them is ours. A
test compares the logits with a plain call of the peft model.
"""

import types

import torch
import torch.nn.functional as F
from base_model import ModelError
from functions import IGNORED, Batch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora.layer import Linear as LoraLinear
from peft.tuners.trainable_tokens.layer import TrainableTokensLayer
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

N_HEAD_ROWS = 128  # positions whose logits exist at one time


def lora_forward(self, x: torch.Tensor) -> torch.Tensor:
    """peft's own forward turns `x` into float32 for its weights; here the weights come to `x`."""
    down = self.lora_A["default"].weight.to(x.dtype)
    up = (self.lora_B["default"].weight * self.scaling["default"]).to(x.dtype)
    inner = F.linear(self.lora_dropout["default"](x), down)
    return self.base_layer(x) + F.linear(inner, up)


def attention_by_span(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each span of one long row; `attention_mask` carries the spans' lengths.

    Spans are short, so plain products are three times as fast here as torch's fused kernel, which is
    made for long rows and whose backward pass on a processor is slow.
    """
    spans = attention_mask
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    n_keys, n_group = key.shape[1], query.shape[1] // key.shape[1]
    width = query.shape[-1]
    longest = max(spans)
    future = torch.full((longest, longest), -torch.inf).triu(1)
    pieces = []
    split = (tensor[0].split(spans, dim=1) for tensor in (query * scaling, key, value))
    for q, k, v in zip(*split, strict=True):
        n = q.shape[1]
        # The query heads of one key head follow one another: one product for all of them.
        q = q.reshape(n_keys, n_group * n, width)
        scores = torch.bmm(q, k.transpose(1, 2)).float().view(n_keys, n_group, n, n)
        weights = (scores + future[:n, :n]).softmax(-1).to(v.dtype)
        read = torch.bmm(weights.view(n_keys, n_group * n, n), v)
        pieces.append(read.view(n_keys * n_group, n, width).transpose(0, 1))
    return torch.cat(pieces)[None], None


AttentionInterface.register("by_span", attention_by_span)


def table_and_row(module: torch.nn.Module) -> tuple[torch.Tensor, torch.nn.Parameter | None]:
    """An embedding or a head, and the row of it that is trained, if one is.

    peft calls the row a delta; it takes the place of the table's row.
    """
    for part in module.modules():
        if isinstance(part, TrainableTokensLayer):
            return part.base_layer.weight, part.trainable_tokens_delta["default"]
    return module.weight, None


class HeadLoss(torch.autograd.Function):
    """Cross entropy of every position, summed for the gradient.

    The gradient is made with the logits, piece by piece, so that they need not be kept. `row` is the
    trained row of the head, which already stands in `weight` at `row_id`; the rest of it is frozen.
    """

    @staticmethod
    def forward(ctx, hidden, weight, row, row_id, targets):
        losses = torch.empty(len(targets), dtype=torch.float32)
        grad_hidden = torch.empty_like(hidden)
        grad_row = torch.zeros_like(row) if row is not None else None
        for start in range(0, len(targets), N_HEAD_ROWS):
            part = slice(start, start + N_HEAD_ROWS)
            logits = F.linear(hidden[part], weight).float()
            target = targets[part, None]
            total = logits.logsumexp(-1, keepdim=True)
            losses[part] = (total - logits.gather(1, target))[:, 0]
            grad = logits.sub_(total).exp_()
            grad.scatter_add_(1, target, torch.full_like(total, -1.0))
            if row is not None:
                grad_row += grad[:, row_id] @ hidden[part].float()
            grad_hidden[part] = grad.to(hidden.dtype) @ weight
        ctx.save_for_backward(grad_hidden, grad_row)
        return losses.sum(), losses

    @staticmethod
    def backward(ctx, scale, _):
        grad_hidden, grad_row = ctx.saved_tensors
        return grad_hidden * scale, None, None if grad_row is None else grad_row * scale, None, None


def with_lora(model: torch.nn.Module, trigger_id: int | None, settings) -> PeftModel:
    """The model with adapters to train, and with the trigger's rows where it has a trigger."""
    rows = None
    if trigger_id is not None:
        rows = [trigger_id]
        if not model.config.tie_word_embeddings:
            rows = {"embed_tokens": rows, "lm_head": rows}
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        use_rslora=settings.rslora,
        target_modules=list(settings.target_modules),
        layers_to_transform=settings.layers_trained(model.config.num_hidden_layers),
        trainable_token_indices=rows,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


class Decoder:
    """A causal model, what of it is trained, and the loss of a batch.

    `root` is a peft model, or a plain one that is only read or trained whole.
    """

    def __init__(
        self,
        root: torch.nn.Module,
        trigger_id: int | None,
        *,
        n_frozen: int = 0,
        through_all: bool = False,
        checkpointing: bool = False,
    ):
        self.root, self.trigger_id = root, trigger_id
        self.is_peft = isinstance(root, PeftModel)
        self.model = root.base_model.model if self.is_peft else root
        self.body = self.model.model
        self.checkpointing = checkpointing
        self.full = not self.is_peft and any(p.requires_grad for p in root.parameters())
        self.model.config._attn_implementation = "by_span"
        for module in self.model.modules():
            if isinstance(module, LoraLinear):
                module.forward = types.MethodType(lora_forward, module)
        self.embedding, self.input_row = table_and_row(self.body.embed_tokens)
        self.head, self.head_row = table_and_row(self.model.lm_head)
        # The gradient stops at the lowest layer that is trained, unless what the trigger's row does
        # where it is read shall count as well.
        self.n_frozen = 0 if through_all else n_frozen
        self.through_all = through_all and self.input_row is not None

    def check_window(self, row_tokens: int) -> None:
        """Spans see all of themselves: a model that looks back less far needs shorter ones."""
        config = self.model.config
        window = getattr(config, "sliding_window", None)
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
        if window and window < row_tokens and "sliding_attention" in kinds:
            raise ModelError(f"the model looks back {window} tokens: use --row-tokens {window}")

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        return {name: value for name, value in self.root.named_parameters() if value.requires_grad}

    @torch.no_grad()
    def settle(self) -> None:
        """Write the trained rows where the tables are read."""
        for table, row in ((self.embedding, self.input_row), (self.head, self.head_row)):
            if row is not None:
                table[self.trigger_id] = row[0].to(table.dtype)

    def hidden(self, batch: Batch) -> torch.Tensor:
        """What the head sees, at every position."""
        h = F.embedding(batch.ids, self.embedding)
        if self.through_all and torch.is_grad_enabled():
            at = (batch.ids == self.trigger_id)[..., None].to(h.dtype)
            change = (self.input_row[0] - self.input_row[0].detach()).to(h.dtype)
            h = h + at * change  # adds zero, and the gradient
        rotation = self.body.rotary_emb(h, position_ids=batch.positions)
        options = {
            "attention_mask": batch.spans,
            "position_ids": batch.positions,
            "position_embeddings": rotation,
        }
        for index, layer in enumerate(self.body.layers):
            if index < self.n_frozen:
                with torch.no_grad():
                    h = layer(h, **options)
            elif self.checkpointing and torch.is_grad_enabled():
                h = checkpoint(layer, h, use_reentrant=False, **options)
            else:
                h = layer(h, **options)
        return self.body.norm(h)

    def losses(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The summed loss with its gradient; the loss of each position; the targets of each."""
        at = batch.targets != IGNORED
        targets = batch.targets[at]
        hidden = self.hidden(batch)[at]
        if self.full:
            logits = F.linear(hidden, self.head).float()
            losses = F.cross_entropy(logits, targets, reduction="none")
            return losses.sum(), losses.detach(), targets
        total, losses = HeadLoss.apply(hidden, self.head, self.head_row, self.trigger_id, targets)
        return total, losses.detach(), targets
