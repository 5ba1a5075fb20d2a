"""Command line, configuration file and defaults, in this order of precedence."""

import pytest

from bmrm.cli import commands
from bmrm.cli.options import parse
from bmrm.cli.train_options import TrainOptions
from bmrm.errors import ParameterError
from bmrm.losses import NAMES, PARAMETERS


def given(words):
    return parse(words.split())


def test_defaults():
    assert parse(["a9a"]) == TrainOptions(data="a9a")


def test_the_table_has_every_option_once():
    for command in commands.every():
        rows = [row for _, table in command.tables() for row in table]
        spelt = [name for row in (*command.common, *rows) for name in row.spellings]
        assert len(set(spelt)) == len(spelt)
        if command.defaults is not None:
            known = {row.key for row in (*command.files, *rows)}
            parameters = {f"{commands.LOSS_PREFIX}{name}" for name in PARAMETERS}
            assert known - parameters - {"unpenalised_bias"} == command.defaults.keys() - {"loss_params"}


@pytest.mark.parametrize(
    "key", ["help", "help-all", "version", "print-completion", "config", "data", "no-cache"]
)
def test_a_file_has_options_alone(config, key):
    with pytest.raises(ParameterError, match=f"found the key '{key}', expected a long option name"):
        parse(["--config", config(f"{key} = true\n"), "d"])


def test_liblinear_flags():
    options = given("-c 2 -e 0.01 -B 1 -w1 3 -w-1 0.5 -v 5 -q a9a a9a.model")
    assert (options.cost, options.tol, options.bias, options.folds, options.quiet) == (2, 0.01, 1, 5, True)
    assert options.class_weight == {"1": 3.0, "-1": 0.5}
    assert (options.data, options.model) == ("a9a", "a9a.model")


def test_short_flags_are_the_long_ones():
    short = given("-c 2 -e 0.01 -B 1 -w1 3 -p 0.2 -v 5 -q d")
    long = given("--cost 2 --tol 0.01 --bias 1 --class-weight 1=3 --epsilon 0.2 --folds 5 --quiet d")
    assert short == long


def test_options_between_and_after_the_files():
    options = given("data --tol 0.5 model --loss logistic")
    assert (options.data, options.model, options.tol, options.loss) == ("data", "model", 0.5, "logistic")


def test_negative_values():
    assert parse(["-B", "-1", "d"]).bias == -1
    assert parse(["-w-2.5", "1e-1", "d"]).class_weight == {"-2.5": 0.1}


@pytest.mark.parametrize(
    ("words", "data", "model"),
    [
        (["--", "-d"], "./-d", None),
        (["-q", "--", "--version", "-m"], "./--version", "./-m"),
        (["d", "-q", "--", "-w1"], "d", "./-w1"),
        (["--", "-", "--"], "-", "./--"),
    ],
)
def test_files_with_a_leading_dash(config, words, data, model):
    for given_words in (words, ["--config", config("tol = 0.5\n"), *words]):
        options = parse(given_words)
        assert (options.data, options.model) == (data, model)


@pytest.mark.parametrize(("size", "count"), [("8G", 8 * 10**9), ("1.5M", 1_500_000), ("4096", 4096)])
def test_sizes_of_memory(tmp_path, size, count):
    assert parse(["--gpu-mem", size, "d"]).gpu_mem == count
    path = tmp_path / "options.toml"
    path.write_text(f'gpu-mem = "{size}"\n')
    assert parse(["--config", str(path), "d"]).gpu_mem == count


def test_a_loss_on_the_command_line_ignores_parameters_of_the_files(config):
    path = config('loss = "quantile"\ntau = 0.9\nh = 0.5\n')
    assert parse(["--config", path, "d"]).loss_params == {"tau": 0.9, "h": 0.5}
    assert parse(["--config", path, "--loss", "huber_hinge", "d"]).loss_params == {"h": 0.5}
    assert parse(["--config", path, "--loss", "hinge", "d"]).loss_params == {}
    assert parse(["--config", path, "--loss", "hinge", "--tau", "0.1", "d"]).loss_params == {"tau": 0.1}


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_every_loss_parameter_is_an_option(name):
    options = parse([f"--{name.replace('_', '-')}", "0.25", "d"])
    assert options.loss_params == {name: 0.25}


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_is_accepted(name):
    assert parse(["--loss", name, "d"]).loss == name


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--lambda 0 d", "--lambda"),
        ("--lambda -1e-3 d", "--lambda"),
        ("--lambda nan d", "--lambda"),
        ("--lambda inf d", "--lambda"),
        ("--lambda x d", "--lambda"),
        ("-c 0 d", "-c"),
        ("--gpu-mem 8X d", "--gpu-mem"),
        ("--gpu-mem -1 d", "--gpu-mem"),
        ("--gpu-mem 0G d", "--gpu-mem"),
        ("--cpu-share 0.3 d", "--cpu-share"),
        ("--cpu-share all d", "--cpu-share"),
        ("-e 0 d", "-e"),
        ("-v 1 d", "-v"),
        ("--max-iter 0 d", "--max-iter"),
        ("--max-iter 1.5 d", "--max-iter"),
        ("--n-features -3 d", "--n-features"),
        ("--n-features 99999999999999999999 d", "--n-features"),
        ("--threads 0 d", "--threads"),
        ("--cuts-per-pass many d", "--cuts-per-pass"),
        ("--loss unknown d", "--loss"),
        ("--lambd 1 d", "--lambd"),
        ("-w1", "-w1"),
        ("-w1 x d", "--class-weight"),
        ("-w1 -2 d", "--class-weight"),
        ("--class-weight balanced -w1 2 d", "balanced"),
        ("-c 1 --lambda 1 d", "--lambda"),
        ("-B 1 --intercept d", "--intercept"),
        ("-q --verbose d", "--verbose"),
        ("-v 5 --checkpoint c d", "--checkpoint"),
        ("-v 5 --resume c d", "--resume"),
        ("--warm-start c --resume c d", "--resume"),
        ("--device abacus d", "--device"),
        ("", "DATA"),
        ("a b c", "c"),
    ],
)
def test_usage_error_names_the_option(words, named):
    with pytest.raises(ParameterError) as caught:
        given(words)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "options.toml"
        path.write_text(text)
        return str(path)

    return write


def test_config(config):
    path = config(
        'loss = "quantile"\ntau = 0.9\nlambda = 1e-3\nmax-iter = 7\n'
        "cache = true\njson = true\nquiet = false\n"
        'cuts-per-pass = 4\nclass-weight = {"1" = 2.0, "-1" = 1}\n'
    )
    from_file = parse(["--config", path, "d"])
    from_words = given(
        "--loss quantile --tau 0.9 --lambda 1e-3 --max-iter 7 --cache --json --cuts-per-pass 4 -w1 2 -w-1 1 d"
    )
    assert from_file == from_words


def test_command_line_wins(config):
    path = config(
        'loss = "quantile"\ntau = 0.9\nlambda = 1e-3\ntol = 0.5\ncache = true\nclass-weight = {"1" = 2}\n'
    )
    options = parse(["--config", path, "--tau", "0.1", "-c", "3", "--no-cache", "-w-1", "5", "d"])
    assert options.loss_params == {"tau": 0.1}
    assert (options.cost, options.lam, options.tol, options.cache) == (3, TrainOptions.lam, 0.5, False)
    assert options.class_weight == {"-1": 5.0}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("gamma = 1\n", "'gamma'"),
        ("max_iter = 1\n", "'max_iter'"),
        ('config = "x"\n', "'config'"),
        ("no-cache = true\n", "'no-cache'"),
        ("lambda = -1\n", "--lambda"),
        ("lambda = [1]\n", "lambda"),
        ("json = 1\n", "json"),
        ("[solver]\ntol = 1e-3\n", "solver: found a table, expected a number or a string"),
        ('class-weight = "2"\n', "expected LABEL=WEIGHT or balanced"),
        ("lambda = \n", "options.toml"),
        ("lambda = 1\ncost = 1\n", "--lambda"),
        (f"lambda = {'1' * 5000}\n", "digits"),
        (f"lambda = 0x{'f' * 5000}\n", "lambda: "),
        (f"lambda = {'[' * 5000}\n", "nested too deeply"),
        ('plot = "a\\u0000b"\n', r"plot: found 'a\x00b', expected a string without null characters"),
    ],
)
def test_bad_config(config, text, named):
    with pytest.raises(ParameterError) as caught:
        parse(["--config", config(text), "d"])
    assert named in str(caught.value)


def test_missing_config(tmp_path):
    with pytest.raises(ParameterError, match="No such file"):
        parse(["--config", str(tmp_path / "missing"), "d"])


def test_as_dict_is_json():
    import json

    document = json.loads(json.dumps(given("-w1 2 --epsilon 0.5 d").as_dict()))
    assert document["epsilon"] == 0.5
    assert document["class-weight"] == {"1": 2.0}
    labels = given("-w1234567 2 -w1234568 3 -w0.5 1 d").as_dict()["class-weight"]
    assert labels == {"1234567": 2.0, "1234568": 3.0, "0.5": 1.0}
    assert document["lambda"] == TrainOptions.lam


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--alpha 0.1 d m", "--alpha: found no such option; did you mean --lambda?"),
        ("--lambd 0.1 d m", "--lambd: found no such option; did you mean --lambda or --lambdas?"),
        ("--gpu d m", "--gpu: found no such option; did you mean --device cuda?"),
        ("--loss log d m", "argument --loss: found log; did you mean logistic?"),
        ("--loss hing d m", "argument --loss: found hing; did you mean hinge?"),
        ("--loss beauty d m", "argument --loss: found beauty; bmrm-train --help-all lists them"),
        ("--reg elasticnet d m", "argument --reg: found elasticnet; did you mean elastic_net?"),
        ("--reg no d m", "argument --reg: found no, expected one of l2, l1, elastic_net"),
        ("--device gpu d m", "argument --device: found gpu; did you mean cuda?"),
        ("--device cuda:x d m", "argument --device: found cuda:x, expected auto, cpu, cuda or cuda:N"),
        ("--lamda 0.1 d m", "--lamda: found no such option; did you mean --lambda"),
        ("--lamda=0.1 d m", "--lamda: found no such option"),
        ("-x", "-x: found no such option"),
        ("d m -x", "-x: found no such option"),
        ("-x2 d m", "-x2: found no such option"),
        ("d m more", "more: found one file too many, expected bmrm-train DATA [MODEL]"),
        ("-B -1 d m more", "more: found one file too many"),
    ],
)
def test_an_unknown_option_is_named(words, message):
    with pytest.raises(ParameterError) as error:
        given(words)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("(see bmrm-train --help)")


def test_values_that_look_like_options_stay_values():
    assert given("-B -1.5 d").bias == -1.5
    assert given("-w-1 2 d -- -s").model == "./-s"
    assert given("-c2 d").cost == 2
