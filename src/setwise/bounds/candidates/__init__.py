"""Upper bounds over the candidates of an instance, by branch and bound."""
