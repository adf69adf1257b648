"""Our capturable CTC against torch's."""

import torch
import torch.nn.functional as F

from training.ctc import ctc_loss, edits, greedy


def test_loss_and_gradient_equal_torchs() -> None:
    torch.manual_seed(3)
    frames, labels = torch.tensor([17, 9, 12, 4]), torch.tensor([6, 3, 1, 4])
    targets = torch.randint(1, 7, (4, 6))
    targets[0, :4] = torch.tensor([2, 2, 5, 5])
    targets[3] = torch.tensor([1, 2, 3, 4, 1, 1])
    ours = torch.randn(4, 17, 7, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    loss = ctc_loss(ours.log_softmax(-1), targets, frames, labels)
    known = F.ctc_loss(theirs.log_softmax(-1).transpose(0, 1), targets, frames, labels, reduction="none")
    weights = torch.tensor([1.0, 0.5, 2.0, 0.1])
    (loss * weights).sum().backward()
    (known * weights).sum().backward()
    torch.testing.assert_close(loss, known, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_labels_that_do_not_fit_give_no_gradient() -> None:
    logits = torch.randn(1, 5, 4, requires_grad=True)
    loss = ctc_loss(logits.log_softmax(-1), torch.tensor([[1, 1, 1, 2]]), torch.tensor([5]), torch.tensor([4]))
    loss.sum().backward()
    assert loss.item() == 0 and not logits.grad.any()


def test_greedy_merges_repeats_and_edits_counts() -> None:
    ids = torch.tensor([[0, 2, 2, 0, 2, 3, 3, 1]])
    assert greedy(F.one_hot(ids, 4).float(), torch.tensor([7])) == [[2, 2, 3]]
    assert edits([1, 2, 3], [2, 3, 4]) == 2
