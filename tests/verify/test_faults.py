"""Every mistake that is planted fails the rows that it breaks, by name, and no others."""

from __future__ import annotations

import pytest

from tests.verify.conftest import Verified

pytestmark = [pytest.mark.processes, pytest.mark.slow]
WINDOWS, SHUFFLES, INITIAL = "every window once", "shuffles", "initial weights"
GRADIENTS, PADDING, EVALUATION = "gradients", "padding and cutting", "evaluation"
STREAMS, REPLICAS, SAME_BITS = "random streams", "replicas after steps", "same bits at any ranks"
TREE = "sync.strategy=tree"

ONE_STREAM = "begin with the same random state"
FAULTS = {
    "one_seed_for_all_shares": {STREAMS: ONE_STREAM},
    "one_seed_for_all_steps": {STREAMS: ONE_STREAM},
    "one_seed_for_all_micro_batches": {STREAMS: ONE_STREAM},
    "nothing_is_seeded": {STREAMS: ONE_STREAM},
    "a_seed_for_each_rank": {STREAMS: "another random state on rank 1 than where rank 0"},
    "the_epoch_is_forgotten": {SHUFFLES: "epochs 1 and 2 have the same order"},
    "only_the_order_of_batches_changes": {SHUFFLES: "epochs 1 and 2 have 8 of 8 batches the same"},
    "an_order_for_each_rank": {
        WINDOWS: "more than once, window 7 in share 0 of step 6 (rank 0), share 1 of step 2 (ra",
        SHUFFLES: "rank 1 forms the batch of step 1 (epoch 1) from other windows than rank 0",
        GRADIENTS: "the ranks do not read the same batch",
        STREAMS: "the ranks do not read the same batch",
        REPLICAS: "the ranks do not read the same batch",
    },
    "ranks_overlap": {
        WINDOWS: "in share 0 of step 6 (rank 0), share 0 of step 6 (rank 1)",
        GRADIENTS: "relative error",
        STREAMS: "on rank 0 and micro-batch 0 of share 0 in step 7 on rank 1 begin",
    },
    "a_share_is_left_out": {
        WINDOWS: "in no share",
        SHUFFLES: "the same order",
        GRADIENTS: "relative error",
        STREAMS: "than where rank 0",
    },
    "the_short_batch_is_dropped": {
        WINDOWS: "epoch 1: windows 13, 31, 48, 50 in no share",
        GRADIENTS: "step 8 failed",
        STREAMS: "step 8 failed",
        REPLICAS: "step 8 failed",
    },
    "every_batch_counts_as_a_full_one": {GRADIENTS: "relative error 5.0e-01 in step 8 on rank 0"},
    "the_loss_is_a_mean": {GRADIENTS: "relative error", PADDING: "padded together differ"},
    "padding_is_in_the_loss": {GRADIENTS: "relative error", PADDING: "the loss of window"},
    "heads_are_unequal": {
        INITIAL: "differs between rank 0 and rank 1, the first of 16 of 39 tensors",
        GRADIENTS: "relative error",
        EVALUATION: "on one rank",
        REPLICAS: "after 3 steps bert.embeddings.word_embeddings.weight differs",
    },
    "a_bucket_is_not_sent": {GRADIENTS: "most of it in", REPLICAS: "differs between rank 0 and"},
    "views_are_not_put_back": {GRADIENTS: "most of it in", REPLICAS: "differs between"},
    "an_evaluation_batch_is_computed_twice": {EVALUATION: "were computed twice"},
    "an_evaluation_batch_is_left_out": {EVALUATION: "other held-out windows than on one rank"},
    "dropout_stays_on_in_evaluation": {EVALUATION: "on one rank"},
    "candidates_are_lost": {EVALUATION: "has the answer"},
    "scoring_fails": {EVALUATION: "the scores could not be computed. OSError: no room"},
    "a_rank_learns_faster": {REPLICAS: "differs between rank 0 and rank 1"},
    "nothing_is_learned": {REPLICAS: "3 steps changed 0 of 39 tensors"},
    "a_check_raises_on_one_rank": {PADDING: "rank 1: MemoryError: no room for padding"},
    "data_cannot_be_read_on_one_rank": {
        GRADIENTS: "step 7 failed, nothing of it was applied. rank 1: OSError: the disk is gone",
        PADDING: "rank 1: OSError: the disk is gone",
        EVALUATION: "the evaluation failed. rank 1: OSError: the disk is gone",
        STREAMS: "rank 1: OSError: the disk is gone",
        REPLICAS: "rank 1: OSError: the disk is gone",
    },
}


TELLING = {
    "one_seed_for_all_shares", "the_epoch_is_forgotten", "ranks_overlap", "a_share_is_left_out",
    "the_loss_is_a_mean", "padding_is_in_the_loss", "heads_are_unequal", "a_bucket_is_not_sent",
    "views_are_not_put_back", "an_evaluation_batch_is_computed_twice",
    "data_cannot_be_read_on_one_rank",
}  # fmt: skip
"""One or more for every row; the others are planted by make long."""
PLANTED = [
    fault if fault in TELLING else pytest.param(fault, marks=pytest.mark.long) for fault in FAULTS
]


def failed(rows: list[list[object]]) -> dict[object, object]:
    return {row: found for row, passed, found in rows if passed is False}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_mistake_fails_the_rows_that_it_breaks(verified: Verified, fault: str) -> None:
    found, expected = failed(verified(2, f"planted:{fault}")), FAULTS[fault]
    assert set(found) == set(expected)
    for row, words in expected.items():
        assert words in str(found[row])


def test_a_tree_that_follows_the_ranks(verified: Verified) -> None:
    found = failed(verified(3, "planted:the_tree_follows_the_ranks", TREE))
    assert set(found) == {SAME_BITS}
    assert "at 3 ranks are not those of one rank" in str(found[SAME_BITS])


def test_streams_and_sums_show_in_the_bits_of_the_tree(verified: Verified) -> None:
    found = failed(verified(2, "planted:a_seed_for_each_rank", TREE))
    assert set(found) == {STREAMS, SAME_BITS}


def test_on_one_rank_mistakes_show_as_well(verified: Verified) -> None:
    assert set(failed(verified(1, "planted:the_loss_is_a_mean"))) == {GRADIENTS, PADDING}
