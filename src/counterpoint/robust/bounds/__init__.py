"""How far noise on the weights can push the score of any point of a set, and what follows from it.

An answer that was chosen by looking at the weights is as sure as it says if its score leads by as
much; and where no point within a distance can lead by as much, the answer is farther away.
"""
