create database keyring;
