"""Base models: what an item is worth by itself after a history. One file per algorithm.

als.py         alternating least squares: item factors, and a fold-in of the history (model/fold_in.py)
ease.py        EASE with dropout regularisation: a linear model of items on items (model/neighbours.py)
item_knn.py    item-kNN: weighted counts of sessions in common (model/neighbours.py)
blend.py       a weighted sum of all three, which is again one base term
search.py      settings and weights, chosen on held-out sessions
"""
