// Empty: this file exists so that a precompiled header has a target to live in.
