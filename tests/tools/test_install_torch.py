from dataclasses import dataclass, field

import pytest

from tools.install_torch import REQUIREMENT, Machine, choose, needs_cuda, release

CUDA = ["torch", "nvidia-cudnn-cu13", "triton", "sympy"]
PLAIN = ["torch", "sympy", "networkx"]


@dataclass
class Answers:
    """A machine described by its answers; `asked` records the questions that cost time."""

    torch: str | None = None
    url: str | None = None
    has_gpu: bool = False
    versions: list[str] = field(default_factory=list)
    default: list[str] = field(default_factory=lambda: CUDA)
    asked: list[str] = field(default_factory=list)

    def installed(self) -> str | None:
        return self.torch

    def index_url(self) -> str | None:
        return self.url

    def gpu(self) -> bool:
        return self.has_gpu

    def offered(self) -> list[str]:
        self.asked.append("offered")
        return self.versions

    def packages(self, requirement: str) -> list[str]:
        self.asked.append(f"packages {requirement}")
        return self.default


def test_an_installed_torch_is_kept_without_asking_pip() -> None:
    machine = Answers(torch="2.13.0+cpu", has_gpu=True, url="somewhere")
    assert choose(machine).arguments == ()
    assert machine.asked == []


def test_an_old_torch_is_replaced() -> None:
    assert choose(Answers(torch="2.9.1", has_gpu=True)).arguments == (REQUIREMENT,)


def test_the_users_index_comes_before_all_that_pip_finds_itself() -> None:
    choice = choose(Answers(url="an-index", has_gpu=True, versions=["2.13.0+cpu"]))
    assert choice.arguments[:2] == ("--index-url", "an-index")
    assert "an-index" in choice.message


def test_a_gpu_gets_the_default_build() -> None:
    assert choose(Answers(has_gpu=True, versions=["2.13.0+cpu"])).arguments == (REQUIREMENT,)


def test_without_gpu_the_newest_cpu_build_on_offer_is_taken_even_if_older_than_the_cuda_build() -> None:
    machine = Answers(versions=["2.15.0", "2.14.0+cu130", "2.13.0+cpu", "2.13.0", "2.12.0+cpu", "2.4.0+cpu"])
    assert choose(machine).arguments == ("torch==2.13.0+cpu",)


def test_a_cpu_build_that_is_too_old_is_not_taken() -> None:
    assert choose(Answers(versions=["2.15.0", "2.4.0+cpu"], default=PLAIN)).arguments == (REQUIREMENT,)


def test_a_default_build_without_cuda_is_taken_quietly() -> None:
    choice = choose(Answers(versions=["2.15.0"], default=PLAIN))
    assert choice.arguments == (REQUIREMENT,)
    assert "GB" not in choice.message


def test_the_cuda_build_comes_last_and_says_its_size_and_the_way_out() -> None:
    choice = choose(Answers(versions=["2.15.0"]))
    assert choice.arguments == (REQUIREMENT,)
    assert "3 GB" in choice.message
    assert "TORCH_INDEX_URL" in choice.message


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("2.11.0a0+git1", (2, 11, 0)), ("unknown", ())]
)
def test_release(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


def test_needs_cuda() -> None:
    assert needs_cuda(["torch", "cuda-toolkit"])
    assert needs_cuda(CUDA)
    assert not needs_cuda(PLAIN)


def test_this_environments_torch_is_found() -> None:
    version = Machine().installed()
    assert version is not None
    assert release(version) >= (2, 11)
