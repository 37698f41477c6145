"""Makes a Llama of four thin layers with a tokenizer: a checkpoint that needs no download.

    model=$("$(dirname "$vllm")/python" tests/real/tiny_model.py [tiny|fat])

Run it with the Python of the vLLM venv (`tokenizers` lives there); the folder is made beside that
venv and its path is all that is printed. It has no weights: serve it with `--load-format dummy`.
The fat one has twice the layers and sixteen times the KV cache, so that memory can run out under
a load that two cores carry.
"""

import hashlib
import itertools
import json
import os
import random
import sys
import tempfile
from pathlib import Path

#: Llama with one KV head of 64: 2 x 4 layers x 1 x 64 x 4 bytes = 2 KB of KV per float32 token
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "intermediate_size": 768,
    "vocab_size": 8000,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
#: 2 x 8 layers x 4 heads x 128 x 4 bytes = 32 KB of KV per float32 token
KINDS = {
    "tiny": CONFIG,
    "fat": {**CONFIG, "num_hidden_layers": 8, "num_key_value_heads": 4, "head_dim": 128},
}
#: by id, from 0
SPECIAL_TOKENS = ["<s>", "</s>"]


def model_dir(kind: str) -> Path:
    """Beside the venv that runs this, named after what this file says."""
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    return Path(sys.prefix).parent / f"{kind}-llama-{digest}"


def training_text(sentences: int = 20_000) -> list[str]:
    """Sentences of made-up words, the same every time; enough of them to fill the vocabulary."""
    rng = random.Random(20_260_801)
    syllables = [a + b for a, b in itertools.product("bcdfghjklmnprstvwz", "aeiou")]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(12_000)]
    return [" ".join(rng.choices(words, k=rng.randint(5, 15))) + "." for _ in range(sentences)]


def make(folder: Path, kind: str) -> None:
    """Write config.json and the tokenizer into a new folder."""
    # it is in the vLLM venv alone
    from tokenizers import ByteLevelBPETokenizer  # type: ignore[import-not-found]

    tokenizer = ByteLevelBPETokenizer()
    size = int(str(CONFIG["vocab_size"]))
    tokenizer.train_from_iterator(
        training_text(), vocab_size=size, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    # every id the model can emit must decode to text
    if tokenizer.get_vocab_size() != size:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, not {size}")
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TOKENS[0],
        "eos_token": SPECIAL_TOKENS[1],
        "model_max_length": CONFIG["max_position_embeddings"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described, indent=2))
    (folder / "config.json").write_text(json.dumps(KINDS[kind], indent=2))


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "tiny"
    target = model_dir(kind)
    if not target.exists():
        # made aside and renamed: whoever sees the folder sees all of it
        folder = Path(tempfile.mkdtemp(prefix=f".{kind}-llama-", dir=target.parent))
        make(folder, kind)
        folder.chmod(0o755)
        os.replace(folder, target)
    print(target)


if __name__ == "__main__":
    main()
