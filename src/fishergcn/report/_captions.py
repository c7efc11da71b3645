"""What stands under the figures, for a reader who sees such a figure for the first time."""

from __future__ import annotations

RESULTS = (
    "Test accuracy is the share of test nodes whose class was predicted correctly. The 95 % interval says how "
    "well the mean is known; it comes from {source}, because runs that share a split are not independent. "
    " “std” is the spread of single runs, as papers report it, and says nothing about the error of "
    "the mean. Balanced accuracy and macro F1 are means over the classes, in which rare classes count as much as "
    "frequent ones; runs of earlier versions did not measure them. The loss contains the weight-decay term, as "
    "published losses do."
)

PUBLISHED = (
    " The last two columns compare with the paper: in percentage points, and in standard errors of our mean (the "
    "paper’s own error comes on top, so small multiples mean agreement)."
)

CHANGED = (
    " Here they are left out: the runs were made with settings that are not the preset’s ({changed}), and the "
    "published numbers belong to those."
)

FOREST = (
    "Each row compares two methods run by run, on the same split with the same seed, which removes the luck of "
    "the draw that both share. The dot is the mean difference, the line its 95 % interval from {source}; "
    "right of the vertical line at zero the first method is better, and a line that crosses zero means the runs "
    "cannot tell. Filled dots: against the control, which is trained with as many dropout samples and no "
    "perturbation, so only such a difference is due to the perturbation. Hollow dots: against the plain GCN. The "
    "table adds how often the first method won, and the p-value of a Wilcoxon signed-rank test over the same "
    "units: the chance to see so lopsided a result if there were no difference."
)

CURVES = (
    "What happened during training. Lines are means over all runs of a method, bands hold the middle 80 % of the "
    "runs. A curve ends where fewer than half of the runs were still training. Training values are measured with "
    "dropout and perturbation switched on, validation values without. Point at a curve or move the slider to read "
    "the values of an epoch; the boxes switch methods on and off."
)

SPECTRUM = (
    "First, the largest eigenvalues of the graph's Laplacian, in other words its fastest-varying patterns, "
    "strongest first. Training shakes only the colored ones; the gray ones and all that follow stay as they are. "
    "Beside or below it, how strongly each of these directions was shaken in the end. The scale of each is "
    "learned against the network, between 0 and ε; dots are means, bars hold the middle 80 % of the runs, and the "
    "faint line is ε/2, near which it starts."
)

ABLATION = (
    "Test accuracy as one setting changes and all others stay: dots are means, bars 95 % intervals. The dashed "
    "level is the control, which has no perturbation; a curve that stays within its band gains nothing over it."
)

VARIANTS = (
    "Each variant against its control, run by run: dots are mean differences, lines 95 % intervals. Right of zero "
    "the variant is better than training with as many dropout samples and no perturbation."
)

PERTURBATIONS = (
    "Differences in test accuracy from the control, which draws as many dropout samples on the plain graph, run by run; "
    "bands are intervals of 95 %. Above, training sees graphs drawn from the neighborhood; below, their mean without "
    "noise. The radius of high, low and random is the paper’s ε, that of nodes, polynomial and links the root mean square "
    "of the Bures distance, that of link-flip and link-drop the share of links."
)

FISHER = (
    "Left: how strongly the predictions react to a small move of the graph along each direction, per squared Bures "
    "distance. Middle: the move they react to most. Right: how much the loss grows along it (line) and along random "
    "moves of the same length (bars)."
)

LINKS = (
    "The links around the node that contributes most to that reaction. Blue: more weight on this link would make the "
    "model surer of its prediction there; red: less sure. Nodes are colored by predicted class."
)

ATTACKED = (
    "Test accuracy of trained networks as the graph or the features change. Lines are means over runs, bands 95 % "
    "intervals from {source}. Random changes, the Bures ball and PRBCD hit networks that were trained on "
    "the plain graph; in the last panel training saw the changed graph too. The adversaries of the ball and of "
    "PRBCD know the test labels and the weights."
)

ATTACKED_DIFFERENCE = (
    "Each perturbed method minus its control, which draws as many dropout samples and has no perturbation, on the "
    "same splits and seeds: lines are mean differences in percentage points, bands 95 % intervals from "
    "{source}. Above zero the perturbation helps; a band that holds zero means that the runs cannot tell."
)
