"""Captions of the figures, for readers who have not seen such figures before."""

from __future__ import annotations

from fishergcn.training import Score

HEADLINE = (
    "Large marks are means over all runs of a method, bars their 95% intervals, and small dots single runs. Intervals "
    "that overlap do not mean that methods are equal: they are compared run by run below."
)

CONSTANT = " The dashed line is what always answering the most frequent class gives."

RESULTS = (
    "{meanings} The 95% interval says how precisely the mean is known; it comes from {source}, because runs that share "
    "a split are not independent. “std” is the spread of single runs, as papers report it, and not the error of the "
    "mean.{missing}"
)

PUBLISHED = (
    " The last two columns compare with the paper, in percentage points and in standard errors of our mean. The "
    "paper’s own error is not included, so a small multiple means agreement."
)

CHANGED = (
    " The difference from the paper is not shown: these runs use settings other than the preset’s ({changed}), and "
    "the published numbers belong to the preset."
)

FEW_SPLITS = (
    " The paper’s numbers are shown for orientation only. A comparison needs at least {splits} random splits: with "
    "fewer, easy or hard splits move the mean of every method up or down together."
)

FOREST = (
    "Each row compares two methods run by run, on the same split and with the same seed, so luck that affects both "
    "cancels out. The dot is the mean difference and the line its 95% interval from {source}. To the {side} of zero "
    "the first method is better ({direction}); a line that crosses zero means these runs cannot tell the two apart. "
    "Small dots are single runs. Filled marks compare with the control, {control}. Hollow marks compare with the plain "
    "GCN or with a network without links. The table adds how often "
    "the first method won and the p-value of a Wilcoxon signed-rank test: how likely a result this lopsided would be "
    "if there were no difference."
)

#: What the control of the forest plot is: where methods change the graph, and where none does.
CONTROLS = {
    True: "which is trained with the same number of dropout samples but no perturbation, so the difference is due to "
    "the perturbation alone",
    False: "the same method without its consistency term",
}

CURVES = (
    "How training went. Lines are means over all runs of a method; bands cover the middle 80% of runs. A curve ends "
    "where fewer than half of the runs were still training. Training values are measured with dropout and "
    "any perturbation on, validation values with both off. Point at a curve or move the slider to read the values at "
    "an epoch; use the checkboxes to show or hide methods. Drag over a chart, or use the buttons, to zoom."
)

SPECTRUM = (
    "First, the largest eigenvalues of the graph’s Laplacian L: its fastest-varying patterns, strongest first. "
    "Training perturbs only the colored ones; the gray ones, and all smaller ones, stay unchanged. Then, how "
    "strongly each direction was perturbed at the end of training. Each strength ϕ lies between 0 and the largest "
    "allowed value ε, the dashed line, and is learned to make the task harder for the network. Dots are means, bars "
    "cover the middle 80% of runs, and the faint line marks ε/2, close to where training starts."
)

ABLATION = (
    "Test {score} as one setting changes and all others stay the same: dots are means, bars 95% intervals. The "
    "dashed line is the control, which has no perturbation; a curve that stays within its band is no better."
)

VARIANTS = (
    "Each variant compared with its control, run by run: dots are mean differences, lines 95% intervals. To the {side} "
    "of zero the variant beats training with the same number of dropout samples and no perturbation."
)

PERTURBATIONS = (
    "Difference in test {score} from the control, which uses the same number of dropout samples on the unchanged "
    "graph, run by run; bands are 95% intervals. “Noise”: training on graphs drawn from the neighborhood. “Mean”: "
    "training on their mean, without noise. The radius of high, low and random is the paper’s ε, that of nodes, "
    "polynomial and links the root mean square of the Bures distance, that of link-flip and link-drop the share of "
    "links; that of spatial, times √n, the Fisher length of a motion of the embedding."
)

FISHER = (
    "First, how strongly the predictions respond to a small change of the graph in each direction, per squared Bures "
    "distance μ. Next, the change they respond to most. Last, how much the loss grows along this change (the orange "
    "line), along the other directions (blue lines) and along random changes of the same size (gray bars)."
)

LINKS = (
    "The links around the {node}. Blue: a stronger link would make the model more certain of its prediction there; "
    "orange: less certain. The bolder the line, the larger the effect. Filled nodes have the same predicted class as "
    "the large one, hollow nodes another."
)

ENDS = (
    "Each row is one way of changing the graph or its features, at the strongest setting that was tried. Marks are "
    "means over runs, bars 95% intervals. The further to the {side}, the better ({direction})."
)

ATTACKED = (
    "Test {score} of trained networks as the graph or its features change. Lines are means over runs, bands 95% "
    "intervals from {source}. Random changes, the Bures ball and PRBCD are applied after training on the original "
    "graph; in the last panel the networks were trained on the changed graph. The Bures ball and PRBCD attacks know "
    "the weights and the test labels."
)

ATTACKED_DIFFERENCE = (
    "Each perturbed method minus its control, which uses the same number of dropout samples and no perturbation, on "
    "the same splits and seeds: lines are mean differences in {score}{unit}, bands 95% intervals from {source}. "
    "{above} zero the perturbation helps; where the band includes zero, these runs cannot tell."
)


def about(score: Score) -> dict[str, str]:
    """Return what the captions above say of a score: what it is, and on which side of zero it is better."""
    high = score.better == "high"
    words = {"score": score.title, "direction": score.direction, "unit": " in percentage points" * score.percent}
    return words | {"side": "right" if high else "left", "above": "Above" if high else "Below"}


def meaning(score: Score) -> str:
    """Say what a score is."""
    is_ = f"is {score.meaning}; {score.direction}" if score.meaning else f": {score.direction}"
    return f"Test {score.title} {is_}.".replace(" :", ":")
