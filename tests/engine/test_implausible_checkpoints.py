"""What no checkpoint says is refused by name before anything is computed with it, or stands in the model's notes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sluicegate.engine import EngineSettings, load_model
from sluicegate.engine.checkpoints.folders import check_folders
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.plugins import ConfigurationError, ModelLoadError
from tests.engine.test_whole_checkpoints import changed
from tests.engine.tiny_models import EOS

Folder = Callable[..., Path]
State = dict[str, torch.Tensor]
FILE = "model.safetensors"
Q, K = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def copy_with(folder: Path, to: Path, file: str = "config.json", **fields: Any) -> Path:
    """Copy a checkpoint with other fields in one of its files."""
    made = copied(folder, to)
    said = json.loads((made / file).read_text()) | fields
    (made / file).write_text(json.dumps(said))
    return made


def split_file(path: Path) -> tuple[dict[str, Any], bytes]:
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def write_file(path: Path, header: Any, data: bytes) -> None:
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def moved(header: dict[str, Any], by: int) -> dict[str, Any]:
    return {
        name: about if name == "__metadata__" else about | {"data_offsets": [at + by for at in about["data_offsets"]]}
        for name, about in header.items()
    }


HEADERS: dict[str, tuple[Callable[[dict[str, Any], bytes], tuple[Any, bytes]], str]] = {
    "overlap": (
        lambda h, d: (h | {Q: h[Q] | {"data_offsets": [at - 64 for at in h[Q]["data_offsets"]]}}, d),
        r"q_proj\.weight begins at \d+, and the tensor before it ends at",
    ),
    "a gap": (lambda h, d: (moved(h, 16), bytes(16) + d), r"lm_head\.weight begins at"),
    "more behind": (lambda h, d: (h, d + bytes(64)), r"its tensors end at \d+, the file has"),
    "a name twice": (
        lambda h, d: (f"{json.dumps(h)[:-1]}, {json.dumps(Q)}: {json.dumps(h[K])}}}", d),
        r"its header has 'model\.layers\.0\.self_attn\.q_proj\.weight' twice",
    ),
    "negative sizes": (lambda h, d: (h | {Q: h[Q] | {"shape": [-64, -48]}}, d), r"has the shape \[-64, -48\]"),
    "half a row": (lambda h, d: (h | {Q: h[Q] | {"shape": [64.5, 48]}}, d), r"has the shape \[64\.5, 48\]"),
    "endless": (lambda h, d: (h | {Q: h[Q] | {"shape": [float("inf")]}}, d), r"has the shape \[inf\]"),
    "no offsets": (lambda h, d: (h | {Q: "x"}, d), r"q_proj\.weight has no data_offsets"),
    "a list": (lambda h, d: ([], d), r"its header is a list, not an object"),
    "deep": (lambda h, d: ("[" * 100_000, d), r"recursion"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_are_not_of_their_data_are_refused(case: str, tiny_folder: Folder, tmp_path: Path) -> None:
    """Each of these was read before, some as other numbers than the file's."""
    change, message = HEADERS[case]
    folder = copied(tiny_folder("llama"), tmp_path)
    write_file(folder / FILE, *change(*split_file(folder / FILE)))
    with pytest.raises(ModelLoadError, match=f"{FILE} is no whole safetensors file .*{message}"):
        load_model(folder)


def in_two_files(folder: Path, *, again: str = "", change: Callable[[dict[str, Any]], Any] = dict) -> Path:
    """Spread a checkpoint over two files. `again`: a tensor that both hold, with other numbers; `change` gives what the
    index says in place of the right names."""
    state = load_file(folder / FILE)
    (folder / FILE).unlink()
    names = sorted(state)
    where = {name: f"model-{1 + (2 * at >= len(names))}.safetensors" for at, name in enumerate(names)}
    for file in sorted({*where.values()}):
        part = {name: one for name, one in state.items() if where[name] == file or name == again}
        if again in part and where[again] != file:
            part[again] = part[again] * 2
        save_file(part, folder / file)
    (folder / f"{FILE}.index.json").write_text(json.dumps({"weight_map": change(where)}))
    return folder


@pytest.mark.parametrize("again", ["lm_head.weight", "model.norm.weight"])
def test_a_tensor_that_two_files_hold_is_refused_unless_it_is_the_same(
    again: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """Which counted was decided by the order of the files, whatever the index said."""
    folder = in_two_files(copied(tiny_folder("llama"), tmp_path), again=again)
    with pytest.raises(ModelLoadError, match=rf"holds '{again}' twice, with other numbers in model-2\.safetensors"):
        load_model(folder)
    (folder / "again.safetensors").write_bytes((folder / "model-1.safetensors").read_bytes())
    paths = [folder / "model-1.safetensors", folder / "again.safetensors"]
    assert stored_tensors(paths, "same").keys() == stored_tensors(paths[:1], "same").keys()


@pytest.mark.parametrize(("names", "message"), [
    ("../{}", r"names '\.\./model-1\.safetensors', .*expected names of files in that folder"),
    ("/tmp/{}", r"names '/tmp/model-1\.safetensors', "),
    ("deeper/{}", r"names 'deeper/model-1\.safetensors', "),
    (".", r"names '\.'; expected"),
    (7, r"names 7; expected"),
    ("x" * 5000, r"names 1 files that are not there"),
    ("\0", r"names 1 files that are not there"),
    (None, r"names no files; expected"),
])  # fmt: skip
def test_an_index_names_files_of_its_folder_alone(
    names: Any, message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """The model's version is made of that folder: other weights elsewhere would have had the same version."""

    def named(where: dict[str, str]) -> dict[str, Any]:
        made = {name: names.format(file) if isinstance(names, str) else names for name, file in where.items()}
        return {} if names is None else made

    folder = in_two_files(copied(tiny_folder("llama"), tmp_path), change=named)
    for file in folder.glob("model-*.safetensors"):
        shutil.copy(file, tmp_path)
    with pytest.raises(ModelLoadError, match=message):
        load_model(folder)


@pytest.mark.parametrize("name", [FILE, "config.json", "merges.txt", "chat_template.jinja"])
@pytest.mark.parametrize("kind", ["pipe", "loop", "dangling"])
def test_a_pipe_or_a_link_to_nothing_is_refused_and_not_waited_for(
    kind: str, name: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    (folder / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(name if kind == "loop" else "nowhere")
    with pytest.raises(ConfigurationError, match=f"{name} of the model folder .* is no file"):
        check_folders(EngineSettings.of({"models": [str(folder)]}).models)
    with pytest.raises(ModelLoadError, match=f"{name} of .* is no file"):
        load_model(folder)


def test_links_to_files_are_files(tiny_folder: Folder, tmp_path: Path) -> None:
    """The hub's cache is made of them."""
    folder = copied(tiny_folder("llama"), tmp_path)
    (folder / FILE).rename(tmp_path / "blob")
    (folder / FILE).symlink_to(tmp_path / "blob")
    assert load_model(folder).version == load_model(tiny_folder("llama")).version


CODES = ("int32", "int8", "uint8", "int64", "bool", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("name", [Q, "model.norm.weight"])
@pytest.mark.parametrize("weights", ["full", "int8"])
def test_weights_that_are_codes_are_refused_without_what_says_their_meaning(
    weights: Any, name: str, kind: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    def coded(state: State) -> State:
        return state | {name: (state[name] * 10).to(getattr(torch, kind))}

    with pytest.raises(ModelLoadError, match=rf"weights that are codes, .*{name} \({kind}\).*quantization_config"):
        load_model(changed(tiny_folder("llama"), tmp_path, coded), weights=weights)


def test_pickled_weights_are_read_without_running_what_they_hold(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    state, ran = load_file(folder / FILE), tmp_path / "ran"
    (folder / FILE).unlink()
    path = folder / "pytorch_model.bin"
    torch.save(state, path)
    assert load_model(folder).parameter_count == sum(one.numel() for one in state.values())
    torch.save({name: one.int() for name, one in state.items()}, path)
    with pytest.raises(ModelLoadError, match=r"weights that are codes, .*\(int32\)"):
        load_model(folder)

    class Hostile:
        def __reduce__(self) -> Any:
            return open, (str(ran), "w")

    for save in (torch.save, lambda found, to: to.write_bytes(pickle.dumps(found))):
        save({"x": Hostile()}, path)
        with pytest.raises(ModelLoadError, match=r"pytorch_model\.bin is no file of weights .*never run"):
            load_model(folder)
    assert not ran.exists()


MUTE: dict[str, Callable[[str, torch.Tensor], torch.Tensor]] = {
    "all zero": lambda name, one: torch.zeros_like(one),
    "no embeddings": lambda name, one: one * ("embed" not in name),
    "no head": lambda name, one: one * ("lm_head" not in name),
    "no last norm": lambda name, one: one * (name != "model.norm.weight"),
    "constant": lambda name, one: torch.full_like(one, 0.01),
    "too small": lambda name, one: one * 1e-42,
    "too large": lambda name, one: one * 1e30,
}


@pytest.mark.parametrize("weights", ["full", "int8"])
@pytest.mark.parametrize("case", MUTE)
def test_a_model_that_cannot_tell_tokens_apart_is_refused(
    case: str, weights: Any, tiny_folder: Folder, tmp_path: Path
) -> None:
    """A file whose room was taken and that was never filled answered with token 0 for ever."""
    folder = changed(
        tiny_folder("llama"), tmp_path, lambda state: {name: MUTE[case](name, one) for name, one in state.items()}
    )
    with pytest.raises(ModelLoadError, match="gives every token the same logit"):
        load_model(folder, weights=weights)


def test_logits_that_are_no_numbers_are_called_that(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = changed(tiny_folder("llama"), tmp_path, lambda state: state | {Q: state[Q] * 1e38})
    with pytest.raises(ModelLoadError, match="logits that are NaN or infinite; its weights are damaged"):
        load_model(folder)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weights", ["full", "int8", "int4"])
def test_matrices_of_zeros_stand_in_the_notes(weights: Any, dtype: str, tiny_folder: Folder, tmp_path: Path) -> None:
    """They may be meant so, as in models that were widened by layers. Twice: the second load uses what the first
    kept."""
    kind = getattr(torch, dtype)
    folder = changed(
        tiny_folder("llama"), tmp_path, lambda s: {n: (one * (n not in (Q, K))).to(kind) for n, one in s.items()}
    )
    for _ in range(2):
        notes = load_model(folder, weights=weights).notes
        assert any("2 of its matrices hold zeros alone, such as model.layers.0.self_attn" in note for note in notes)
    assert not load_model(tiny_folder("llama"), weights=weights).notes


@pytest.mark.parametrize("sizes", [
    {"num_hidden_layers": 10_000_000},
    {"vocab_size": 10**11},
    {"intermediate_size": 10**9},
    {"num_key_value_heads": 10**9},
    {"head_dim": 10**8},
])  # fmt: skip
def test_sizes_that_the_tensors_cannot_fill_are_refused_before_memory_is_taken(
    sizes: dict[str, int], tiny_folder: Folder, tmp_path: Path
) -> None:
    with pytest.raises(ModelLoadError, match=r"describes a model of [\d,]+ numbers and more"):
        load_model(copy_with(tiny_folder("llama"), tmp_path, **sizes))


ROPE: list[tuple[dict[str, Any], str]] = [
    ({"rope_type": "linear", "factor": -2.0}, r"rope_parameters\.factor is -2\.0; expected finite numbers above 0"),
    ({"rope_type": "linear", "factor": 0}, r"factor is 0;"),
    ({"rope_type": "linear", "factor": "4"}, r"factor is '4';"),
    ({"rope_type": "yarn", "factor": float("inf")}, r"factor is inf;"),
    ({"rope_type": "yarn", "factor": 4.0, "beta_fast": -1}, r"beta_fast is -1;"),
    (
        {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [float("nan")] * 8},
        r"says rope_parameters\.long_factor = nan; expected a number",
    ),
    ({"factor": 4.0}, r"scales positions by 4\.0, and its rope_type does not say how"),
    ({"rope_type": "default", "rope_theta": 0.0}, r"rope_theta is 0\.0;"),
    (
        {"rope_type": "default", "rope_theta": float("nan")},
        r"says rope_parameters\.rope_theta = nan; expected a number",
    ),
    ({"rope_type": "default", "partial_rotary_factor": 7}, r"partial_rotary_factor is 7; expected 1 at most"),
]


@pytest.mark.parametrize(("rope", "message"), ROPE)
def test_positions_that_cannot_be_computed_with_are_refused_by_the_field(
    rope: dict[str, Any], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    fields = {"rope_parameters": {"rope_theta": 10000.0, **rope}}
    with pytest.raises(ModelLoadError, match=message):
        load_model(copy_with(tiny_folder("llama"), tmp_path, **fields))


@pytest.mark.parametrize("length", [-1, 1, 1 << 60])
def test_a_context_without_room_or_end_is_refused(length: int, tiny_folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=f"max_position_embeddings is {length}; expected 2 or more"):
        load_model(copy_with(tiny_folder("llama"), tmp_path, max_position_embeddings=length))


@pytest.mark.parametrize("length", [2, 3])
def test_the_shortest_contexts_are_tried_like_others(length: int, tiny_folder: Folder, tmp_path: Path) -> None:
    assert (
        load_model(copy_with(tiny_folder("llama"), tmp_path, max_position_embeddings=length)).context_length == length
    )


@pytest.mark.parametrize("ids", ["x", [[3]], 1.5, True, [1, "2"]])
def test_ends_that_are_no_ids_are_refused(ids: Any, tiny_folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"eos_token_id is .*; expected the ids of tokens"):
        load_model(copy_with(tiny_folder("llama"), tmp_path, "generation_config.json", eos_token_id=ids))


@pytest.mark.parametrize("ids", [-1, 9999, [EOS, 10**30]])
def test_ends_that_no_token_has_are_left_out_and_said(ids: Any, tiny_folder: Folder, tmp_path: Path) -> None:
    """`min_tokens` bars the columns of all ends: -1 was the last token's, and others were none's."""
    model = load_model(copy_with(tiny_folder("llama"), tmp_path, "generation_config.json", eos_token_id=ids))
    assert model.eos_token_ids == (EOS,)
    assert [note for note in model.notes if "as the end of answers, which none of its tokens has" in note]


@pytest.mark.parametrize(("fields", "names"), [
    ({"suppress_tokens": [1], "num_beams": 4}, "num_beams, suppress_tokens"),
    ({"typical_p": 0.5}, "typical_p"),
    ({"stop_strings": ["a"]}, "stop_strings"),
])  # fmt: skip
def test_what_is_not_heeded_of_the_generation_config_stands_in_the_notes(
    fields: dict[str, Any], names: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    folder = copy_with(tiny_folder("llama"), tmp_path, "generation_config.json", **fields)
    for _ in range(2):
        assert f"its generation_config.json sets {names}, which is left aside: requests say such things" in (
            load_model(folder).notes
        )


@pytest.mark.parametrize(("file", "fields", "message"), [
    ("tokenizer_config.json", {"model_max_length": "x"}, r"no tokenizer can be made of .*model_max_length is 'x'"),
    ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer"}, "cannot be served|no tokenizer can be made"),
    ("tokenizer_config.json", {"bos_token": 7}, r"no tokenizer can be made of tokenizer\.json and .*bos_token"),
    ("config.json", {"sliding_window": "x"}, r"says sliding_window = 'x'; expected a whole number above 0"),
])  # fmt: skip
def test_whatever_a_library_raises_over_a_file_is_the_checkpoints_error(
    file: str, fields: dict[str, Any], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    with pytest.raises(ModelLoadError, match=message):
        load_model(copy_with(tiny_folder("llama"), tmp_path, file, **fields))


@pytest.mark.parametrize("file", ["config.json", f"{FILE}.index.json", "tokenizer_config.json"])
def test_files_that_are_nested_without_end_are_refused(file: str, tiny_folder: Folder, tmp_path: Path) -> None:
    folder = copied(tiny_folder("llama"), tmp_path)
    (folder / file).write_text("[" * 100_000)
    with pytest.raises(ModelLoadError, match="recursion"):
        load_model(folder)


def with_tokens(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    said = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    change(said)
    (folder / "tokenizer.json").write_text(json.dumps(said), "utf-8")
    return folder


TOKENS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda said: said["model"]["vocab"].update(th=2**31), r"gives the token 'th' the id 2147483648; expected"),
    (lambda said: said["model"]["vocab"].update(th=-1), r"gives the token 'th' the id -1; expected"),
    (lambda said: said["model"]["vocab"].update(th=True), r"gives the token 'th' the id True; expected"),
    (lambda said: said["added_tokens"][0].update(id=2**40), r"gives the token '<s>' the id 1099511627776; expected"),
    (lambda said: said["added_tokens"][0].update(id=EOS), r"gives the id 257 to the added tokens '<s>' and '</s>'"),
    (lambda said: said["model"].update(vocab=[]), r"no tokenizer can be made of tokenizer\.json and .*: "),
]


@pytest.mark.parametrize(("change", "message"), TOKENS)
def test_tokens_that_no_vocabulary_has_are_refused_by_name(
    change: Callable[[dict[str, Any]], object], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """A large id ended the process: the library took memory for every number up to it."""
    folder = with_tokens(copied(tiny_folder("llama"), tmp_path), change)
    with pytest.raises(ModelLoadError, match=message):
        load_model(folder)
