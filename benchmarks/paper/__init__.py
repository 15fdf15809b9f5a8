"""Published figures: those of Luo & Durrant 2017, with reasons for differences and its theory; of Du et al. 2015."""
