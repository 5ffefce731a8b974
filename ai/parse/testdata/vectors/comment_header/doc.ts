/**
 * ---
 * version: 1.0.0
 * é: {a: b, a: c}
 * ---
 */
export {}
