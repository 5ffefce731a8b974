/* ---
version: 1.0.0
list:
  - a
--- */
export {}
