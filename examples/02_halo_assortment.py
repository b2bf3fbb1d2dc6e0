"""Which four products to put on a small café's counter, when products help and hurt each other's sales.

A best-seller list takes the products that sell best on their own. But two coffees share their buyers, while a croissant
next to the coffee sells both. Run: python examples/02_halo_assortment.py
"""

import numpy as np

from setwise.preferences.halo_mnl import HaloMNL

UTILITY = {  # how attractive a product is alone; leaving without buying has 0
    "espresso": 0.2, "filter coffee": 0.1, "latte": 0.0, "tea": -0.4,
    "croissant": -0.6, "cookie": -0.8, "sandwich": -0.3, "orange juice": -0.9,
}  # fmt: skip
PRICE = [2.2, 2.5, 3.6, 2.4, 2.0, 1.5, 5.5, 3.2]
EFFECTS = [  # the product, the one beside it, and what that does to the product's utility
    ("espresso", "filter coffee", -0.9), ("espresso", "latte", -0.8), ("filter coffee", "espresso", -0.9),
    ("filter coffee", "latte", -0.7), ("latte", "espresso", -0.6), ("latte", "filter coffee", -0.6),
    ("latte", "croissant", 0.9), ("croissant", "latte", 1.2), ("croissant", "espresso", 0.7),
    ("espresso", "croissant", 0.4), ("sandwich", "orange juice", 0.8), ("orange juice", "sandwich", 0.9),
    ("cookie", "tea", 0.6), ("tea", "cookie", 0.5), ("sandwich", "croissant", -0.5),
]  # fmt: skip


def describe(model: HaloMNL, title: str, rows: list[int]) -> None:
    print(f"\n{title}: {model.expected_sales(rows):.1%} buy, {model.expected_revenue(rows, PRICE):.2f} a visitor")
    for row, share in zip(rows, model.choice_probabilities(rows), strict=True):
        halo = ", ".join(f"{model.halo[row, j]:+.1f} from {model.ids[j]}" for j in rows if model.halo[row, j])
        print(f"  {model.ids[row]:<14} {share:6.1%}  {halo}")


def main() -> None:
    names = list(UTILITY)
    halo = np.zeros((len(names), len(names)))
    for product, beside, effect in EFFECTS:
        halo[names.index(product), names.index(beside)] = effect
    model = HaloMNL(list(UTILITY.values()), halo, ids=names)
    best_sellers = (-model.utility).argsort()[:4].tolist()
    describe(model, "Best sellers", best_sellers)
    sales = model.assortment(4, ranker="exhaustive")
    describe(model, "Most sales", sales.indices.tolist())
    revenue = model.assortment(4, price=PRICE, ranker="exhaustive")
    describe(model, "Most revenue", revenue.indices.tolist())
    rounds = ", ".join(f"{guess:.2f}" for guess in revenue.guesses[1:])
    print(f"\nRevenue rose through {rounds}; optimal: {revenue.proven}")


if __name__ == "__main__":
    main()
