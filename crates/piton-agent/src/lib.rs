//! Agent loops, judgers, produce strategies and the managers that turn prompts into judged groups.
