/* a comment */
/*
---
version: 1.0.0
*/
int main;
