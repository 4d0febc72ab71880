"""Scores, compared with their definitions computed from the list of pairs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.scoring import Scorer

LABELS = tuple("abcdefg")


def answer(*ranked: int) -> Prediction:
    """Return an answer with the given ranking of labels."""
    top = tuple(LabelProbability(LABELS[index], index, 0.1) for index in ranked)
    return Prediction("x", LABELS[ranked[0]], ranked[0], 0.1, top)


@given(st.lists(st.tuples(st.permutations(range(7)), st.one_of(st.none(), st.integers(0, 6))), max_size=40))
def test_scores_are_what_their_definitions_give(pairs: list[tuple[list[int], int | None]]) -> None:
    scorer = Scorer(LABELS, 5)
    for ranked, right in pairs:
        scorer.add(answer(*ranked[:5]), right)
    score = scorer.score
    known = [(ranked, right) for ranked, right in pairs if right is not None]
    assert score.unlabelled == len(pairs) - len(known) and score.total == len(known)
    assert score.top_5 == sum(right in ranked[:5] for ranked, right in known)
    assert score.correct == sum(right == ranked[0] for ranked, right in known)
    matrix = np.zeros((7, 7), int)
    for ranked, right in known:
        matrix[right, ranked[0]] += 1
    assert {(each.label, each.predicted): each.count for each in score.confusion} == {
        (LABELS[row], LABELS[column]): matrix[row, column] for row, column in np.argwhere(matrix)
    }
    f1s = []
    for each in score.classes:
        index = each.class_index
        hits, answered, support = matrix[index, index], matrix[:, index].sum(), matrix[index].sum()
        assert each.precision == (hits / answered if answered else None)
        assert each.recall == (hits / support if support else None)
        if support:
            precision, recall = each.precision or 0.0, each.recall or 0.0
            f1s.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
            np.testing.assert_allclose(each.f1, f1s[-1], atol=1e-12)
    assert {each.class_index for each in score.classes} == {*np.flatnonzero(matrix.sum(0) + matrix.sum(1)).tolist()}
    np.testing.assert_allclose(score.macro_f1 or 0, np.mean(f1s) if f1s else 0, atol=1e-12)


def test_top_five_needs_five_labels_of_more() -> None:
    for labels, top_k in ((LABELS, 4), (LABELS[:5], 5)):
        scorer = Scorer(labels, top_k)
        scorer.add(answer(0, 1, 2), 2)
        assert scorer.score.top_5 is None and scorer.score.top_5_accuracy is None


def test_an_empty_score_divides_by_nothing() -> None:
    score = Scorer(LABELS, 5).score
    assert (score.accuracy, score.top_5_accuracy, score.macro_f1, score.mistakes) == (0, None, None, [])
