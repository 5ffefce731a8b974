-- ---
-- version: 1.0.0
-- ---
print(1)
