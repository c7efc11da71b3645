"""Every setting: its default, what is refused, and the way through JSON."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from fishergcn.errors import InputError
from fishergcn.training import TrainConfig


def test_defaults_are_the_papers():
    config = TrainConfig()
    assert (config.learning_rate, config.hidden, config.dropout, config.weight_decay) == (
        0.01,
        (64,),
        0.5,
        5e-4,
    )
    assert (config.max_epochs, config.stopping, config.test_at) == (500, "paper", "last")
    assert (config.samples, config.rank, config.radius, config.noise) == (5, 10, 0.1, "uniform")
    assert (config.order, config.threshold) == (5, 1e-4)
    assert (config.consistency, config.temperature) == (0.7, 0.6)
    assert config.adversarial
    assert (config.scaling, config.bias, config.class_weight) == ("rows", False, "none")
    assert (config.directions, config.scale, config.perturbation) == ("high", "projected", "spectral")


BAD = [
    ("learning_rate", 0.0, "learning_rate must be greater than 0.0, got 0."),
    ("learning_rate", "fast", "learning_rate must be a number, got 'fast'."),
    ("learning_rate", float("nan"), "learning_rate must be finite, got nan."),
    ("hidden", 0, "hidden must be between 1 and 65536, got 0."),
    ("hidden", (64, 0), "hidden must be between 1 and 65536, got 0."),
    ("hidden", 1.5, "hidden must be a whole number, got 1.5."),
    ("hidden", None, "hidden must be a whole number, got None."),
    ("dropout", 1.0, "dropout must be at least 0.0 and less than 1.0, got 1."),
    ("dropout", -0.1, "dropout must be at least 0.0 and less than 1.0, got -0.1."),
    ("weight_decay", -1.0, "weight_decay must be at least 0.0, got -1."),
    ("max_epochs", 0, "max_epochs must be at least 1, got 0."),
    (
        "stopping",
        "papr",
        "stopping must be one of 'paper', 'patience', 'none', got 'papr' (did you mean 'paper'?).",
    ),
    ("patience", 0, "patience must be at least 1, got 0."),
    ("test_at", "best", "test_at must be one of 'last', 'best-val', got 'best' (did you mean 'best-val'?)."),
    ("score", 1, "score must be the name of a score, such as 'loss' or 'macro-f1', got 1."),
    ("scaling", "row", "scaling must be one of 'rows', 'none', 'columns', got 'row' (did you mean 'rows'?)."),
    ("bias", 1, "bias must be True or False, got 1."),
    ("class_weight", None, "class_weight must be one of 'none', 'balanced', got None."),
    ("samples", 0, "samples must be between 1 and 1024, got 0."),
    ("samples", True, "samples must be a whole number, got True."),
    ("rank", 0, "rank must be at least 1, got 0."),
    ("radius", -0.1, "radius must be at least 0.0, got -0.1."),
    ("noise", "pink", "noise must be one of 'uniform', 'gaussian', 'mean', got 'pink'."),
    ("directions", 1, "directions must be one of 'high', 'low', 'random', 'nodes', 'polynomial', 'links', got 1."),
    ("degree", 0, "degree must be between 1 and 32, got 0."),
    ("metric", "flat", "metric must be one of 'bures', 'log-det', 'frobenius', got 'flat'."),
    ("scale", "none", "scale must be one of 'projected', 'trace', got 'none'."),
    ("adversarial", 1, "adversarial must be True or False, got 1."),
    ("own_weights", 1, None),
    ("links_as_features", 1, None),
    ("norm", "group", None),
    ("perturbation", "links", None),
    ("link_rate", 1.0, "link_rate must be at least 0.0 and less than 1.0, got 1."),
    ("order", 0, "order must be between 1 and 1000, got 0."),
    ("threshold", 1.0, "threshold must be at least 0.0 and less than 1.0, got 1."),
    ("consistency", -1, "consistency must be at least 0.0, got -1."),
    ("temperature", 0, "temperature must be greater than 0.0, got 0."),
    ("dtype", "float16", None),
]


@pytest.mark.parametrize(("name", "value", "sentence"), BAD)
def test_bad_values(name, value, sentence):
    with pytest.raises(InputError) as error:
        TrainConfig(**{name: value})
    assert str(error.value).startswith(f"{name} must be ")
    if sentence is not None:
        assert str(error.value) == sentence


def test_every_setting_has_a_check():
    fields = {field.name for field in dataclasses.fields(TrainConfig)}
    assert {name for name, _, _ in BAD} == fields


def test_hidden_sizes():
    assert TrainConfig(hidden=32).hidden == (32,)
    assert TrainConfig(hidden=[32, 16]).hidden == (32, 16)
    assert TrainConfig(hidden=()).hidden == ()
    assert TrainConfig(hidden=np.int64(8)).hidden == (8,)


def test_round_trip_through_json():
    config = TrainConfig(
        hidden=np.array([8, 4]), learning_rate=np.float32(0.5), rank=np.int64(3), radius=1, adversarial=False
    )
    text = json.dumps(config.to_dict())
    again = TrainConfig.from_dict(json.loads(text))
    assert again == config
    assert again.hidden == (8, 4)
    assert isinstance(again.radius, float)
    assert hash(again) == hash(config)


def test_settings_of_version_0_1():
    old = {name: value for name, value in TrainConfig().to_dict().items() if name != "scaling"}
    del old["bias"], old["class_weight"]
    assert TrainConfig.from_dict(old | {"normalize_features": True}) == TrainConfig()
    assert TrainConfig.from_dict(old | {"normalize_features": False}) == TrainConfig(scaling="none")
    with pytest.raises(InputError, match=r"normalize_features must be True or False, got 'no'\."):
        TrainConfig.from_dict({"normalize_features": "no"})
    with pytest.raises(InputError, match="unknown setting 'normalize_features'"):
        TrainConfig.from_dict({"normalize_features": True, "scaling": "rows"})


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().rank = 5


def test_unknown_settings():
    with pytest.raises(InputError, match=r"unknown setting 'learning_rat' \(did you mean 'learning_rate'\?\)"):
        TrainConfig.from_dict({"learning_rat": 0.1})
    with pytest.raises(InputError, match="hidden must be a whole number"):
        TrainConfig.from_dict({"hidden": None})
